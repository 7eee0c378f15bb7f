-- Writes a record of a group that does not exist, unless there are too many of its account or of the group. Returns 1; or 0
-- if the record exists; or 2 if there are too many. The numbers of records of the account and of the group follow.
--
-- KEYS: the record, the names, and the times of expiry, of the records of the group
-- ARGV: the version, the account and the value, the account, the time to live in milliseconds, the name in the group, and
-- the maximum numbers of records of the account and of the group
local new = string.sub(ARGV[1], 1, 8)
-- The version is random, so a record that has it was written by this command, whose response was lost.
local function exists(found)
    return {string.sub(found, 1, 8) == new and 1 or 0, 0, 0}
end
local account, ttl, now = account_key(ARGV[2]), tonumber(ARGV[3]), current_time()
local max_own, max_total = account and tonumber(ARGV[5]) or math.huge, tonumber(ARGV[6])
local own, total = account and redis.call('ZCARD', account) or 0, redis.call('ZCARD', KEYS[3])
-- So far, both numbers may include records that have expired.
if own >= max_own or total >= max_total then
    if account then
        own = own - redis.call('ZREMRANGEBYSCORE', account, '-inf', text(now))
    end
    remove_expired(now)
    total = redis.call('ZCOUNT', KEYS[3], '(' .. text(now), '+inf')
    if own >= max_own or total >= max_total then
        local found = header()
        return found ~= '' and exists(found) or {2, own, total}
    end
end
local found = redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3], 'NX', 'GET')
if found then
    return exists(found)
end
add(ARGV[4], account, now, ttl, new)
return {1, 0, 0}
