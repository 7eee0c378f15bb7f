-- Appends entries to a log, announces them, and returns the position of the last one.
--
-- A log is a stream. The id of an entry consists of its position and of the number of bytes of all entries up to this
-- one, so that a range of positions is a range of ids, and the size of the log is known without reading it.
--
-- KEYS: the log
-- ARGV: the maximum number of entries, the maximum number of their bytes, the time to live in milliseconds, the name of
-- this change, the number of entries in which to look for it, the channel, and the entries
local position, bytes = 0, 0
for index, entry in ipairs(redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', ARGV[5])) do
    local number, sum = string.match(entry[1], '^(%d+)-(%d+)$')
    -- The same command has been sent before, and its response was lost.
    if entry[2][1] == ARGV[4] then
        return tonumber(number)
    end
    if index == 1 then
        position, bytes = tonumber(number), tonumber(sum)
    end
end
for index = 7, #ARGV do
    position = position + 1
    bytes = bytes + #ARGV[index]
    local id = string.format('%.0f-%.0f', position, bytes)
    redis.call('XADD', KEYS[1], 'MAXLEN', math.max(ARGV[1], 1), id, ARGV[4], ARGV[index])
end
if position == 0 then
    return 0
end
-- Drops what precedes the first entry that, together with those after it, is not too long.
local excess, start = bytes - ARGV[2], '-'
while excess > 0 do
    local entry = redis.call('XRANGE', KEYS[1], start, '+', 'COUNT', 1)[1]
    local number, sum = string.match(entry[1], '^(%d+)-(%d+)$')
    if tonumber(number) == position or tonumber(sum) - #entry[2][2] >= excess then
        redis.call('XTRIM', KEYS[1], 'MINID', number)
        break
    end
    start = '(' .. entry[1]
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('PUBLISH', ARGV[6], string.format('%.0f', position))
return position
