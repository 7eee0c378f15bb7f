-- Writes a record, unless it has another version than expected. Returns 1 if it was written, 0 if it was not, and -1 if
-- that is unknown.
--
-- KEYS: the record; for a record of a group also the names, and the times of expiry, of the records of the group
-- ARGV: the expected version (`*` for any, empty for none), the new version followed by the value, the time to live in
-- milliseconds, the name in the group, and whether the same command has been sent before, with an unknown result
local version = redis.call('GETRANGE', KEYS[1], 0, 7)
if version == string.sub(ARGV[2], 1, 8) then
    return 1
end
if ARGV[1] ~= '*' and ARGV[1] ~= version then
    -- If the command has been executed before, the record has been changed again since.
    return ARGV[5] == 'repeated' and -1 or 0
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
if not KEYS[2] then
    return 1
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', KEYS[2], 0, ARGV[4])
redis.call('ZADD', KEYS[3], string.format('%.0f', now + ARGV[3]), ARGV[4])
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', string.format('%.0f', now), 'LIMIT', 0, 100)) do
    redis.call('ZREM', KEYS[2], name)
    redis.call('ZREM', KEYS[3], name)
end
-- The lists exist as long as the record that expires last.
if redis.call('PTTL', KEYS[2]) < tonumber(ARGV[3]) then
    redis.call('PEXPIRE', KEYS[2], ARGV[3])
    redis.call('PEXPIRE', KEYS[3], ARGV[3])
end
return 1
