-- Deletes a record, unless it has another version than expected. Returns whether it was deleted.
--
-- KEYS: the record; for a record of a group also the names, and the times of expiry, of the records of the group
-- ARGV: the expected version (`*` for any, empty for none), and the name in the group
local version, account = header()
if version == '' or (ARGV[1] ~= '*' and ARGV[1] ~= version) then
    return 0
end
if KEYS[2] then
    redis.call('ZREM', KEYS[2], ARGV[2])
    redis.call('ZREM', KEYS[3], ARGV[2])
    if account ~= '' then
        redis.call('ZREM', account_key(account), ARGV[2])
    end
end
return redis.call('DEL', KEYS[1])
