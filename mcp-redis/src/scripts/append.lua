-- Appends entries to a log that ends at the expected position, and announces them. Returns whether they were appended, and
-- the position of the last entry of the log.
--
-- A log is a stream. The id of an entry consists of its position and of the number of bytes of all entries up to this
-- one, so that a range of positions is a range of ids, and the size of the log is known without reading it.
--
-- KEYS: the log
-- ARGV: the expected position, the maximum number of entries, the maximum number of their bytes, the time to live in
-- milliseconds, the channel, and the entries
local position, bytes = 0, 0
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
if newest then
    local number, sum = string.match(newest[1], '^(%d+)-(%d+)$')
    position, bytes = tonumber(number), tonumber(sum)
end
if position ~= tonumber(ARGV[1]) then
    return {0, position}
end
for index = 6, #ARGV do
    position = position + 1
    bytes = bytes + #ARGV[index]
    local id = string.format('%.0f-%.0f', position, bytes)
    redis.call('XADD', KEYS[1], 'MAXLEN', math.max(ARGV[2], 1), id, '', ARGV[index])
end
-- Drops what precedes the first entry that, together with those after it, is not too long.
local excess, start = bytes - ARGV[3], '-'
while excess > 0 do
    local entry = redis.call('XRANGE', KEYS[1], start, '+', 'COUNT', 1)[1]
    local number, sum = string.match(entry[1], '^(%d+)-(%d+)$')
    if tonumber(number) == position or tonumber(sum) - #entry[2][2] >= excess then
        redis.call('XTRIM', KEYS[1], 'MINID', number)
        break
    end
    start = '(' .. entry[1]
end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call('PUBLISH', ARGV[5], string.format('%.0f', position))
return {1, position}
