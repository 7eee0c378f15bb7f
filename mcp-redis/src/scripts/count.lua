-- Returns the number of records of a group.
--
-- KEYS: the times of expiry of the records of the group
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
return redis.call('ZCOUNT', KEYS[1], '(' .. now, '+inf')
