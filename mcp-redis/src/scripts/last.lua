-- Returns the position of the last entry of a log, nothing if it does not exist.
--
-- KEYS: the log
local entry = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
return entry and tonumber(string.match(entry[1], '^(%d+)-'))
