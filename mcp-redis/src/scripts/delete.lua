-- Deletes a record, unless it has another version than expected. Returns whether it was deleted.
--
-- KEYS: the record; for a record of a group also the names, and the times of expiry, of the records of the group
-- ARGV: the expected version (`*` for any, empty for none), and the name in the group
if ARGV[1] ~= '*' and ARGV[1] ~= redis.call('GETRANGE', KEYS[1], 0, 7) then
    return 0
end
if KEYS[2] then
    redis.call('ZREM', KEYS[2], ARGV[2])
    redis.call('ZREM', KEYS[3], ARGV[2])
end
return redis.call('DEL', KEYS[1])
