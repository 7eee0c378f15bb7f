-- Writes a record, unless it has another version than expected. Returns 1 if it was written, 0 if it was not, and -1 if
-- that is unknown.
--
-- KEYS: the record; for a record of a group also the names, and the times of expiry, of the records of the group
-- ARGV: the expected version (`*` for any, empty for none), the new version, the empty account and the value, the time to
-- live in milliseconds, the name in the group, and whether the same command has been sent before, with an unknown result
local version, account = header()
local new = string.sub(ARGV[2], 1, 8)
if version == new then
    return 1
end
if ARGV[1] ~= '*' and ARGV[1] ~= version then
    -- If the command has been executed before, the record has been changed again since.
    return ARGV[5] == 'repeated' and -1 or 0
end
if not KEYS[2] then
    redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
    return 1
end
local value, ttl = ARGV[2], tonumber(ARGV[3])
if account ~= '' then
    value = new .. string.char(#account) .. account .. string.sub(value, 10)
end
-- A time to live that nearly equals the remaining one changes nothing else.
if version ~= '' and math.abs(redis.call('PTTL', KEYS[1]) - ttl) <= ttl / 1000 then
    redis.call('SET', KEYS[1], value, 'KEEPTTL')
    return 1
end
redis.call('SET', KEYS[1], value, 'PX', ARGV[3])
if version == '' then
    add(ARGV[4], nil, current_time(), ttl, new)
else
    set_expiry(ARGV[4], account_key(account), current_time(), ttl)
end
return 1
