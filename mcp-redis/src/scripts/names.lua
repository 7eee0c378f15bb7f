-- Returns names of the records of a group in their order, some of which may have expired.
--
-- KEYS: the names, and the times of expiry, of the records of the group
-- ARGV: the start of the range, and the maximum number of names
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 100)) do
    redis.call('ZREM', KEYS[1], name)
    redis.call('ZREM', KEYS[2], name)
end
return redis.call('ZRANGEBYLEX', KEYS[1], ARGV[1], '+', 'LIMIT', 0, ARGV[2])
