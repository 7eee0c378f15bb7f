-- Returns the time of the server in milliseconds since the Unix epoch.
-- KEYS: any key
local time = redis.call('TIME')
return time[1] * 1000 + math.floor(time[2] / 1000)
