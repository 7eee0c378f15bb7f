-- Writes a record of a group that does not exist, unless there are too many of its account or of the group. In that case,
-- deletes another one if that suffices. Returns 1 and whether another record was deleted; or 0 if the record exists; or 2
-- and the numbers of records of the account and of the group if these are too many.
--
-- KEYS: the record, the names, and the times of expiry, of the records of the group
-- ARGV: the version, the account and the value, the account, the time to live in milliseconds, the name in the group, the
-- maximum numbers of records of the account and of the group, and the name of a record of the account that may be deleted
-- or nothing
local new = string.sub(ARGV[1], 1, 8)
local found = header()
if found ~= '' then
    -- The version is random, so a record that has it was written by this command, whose response was lost.
    return {found == new and 1 or 0, 0, 0}
end
local account, ttl, now = account_key(ARGV[2]), tonumber(ARGV[3]), current_time()
local max_own, max_total = account and tonumber(ARGV[5]) or math.huge, tonumber(ARGV[6])

-- Deletes the record that may be deleted. Returns whether it existed.
local function replace()
    if ARGV[7] == '' or redis.call('DEL', KEYS[2] .. ':' .. ARGV[7]) == 0 then
        return false
    end
    redis.call('ZREM', KEYS[2], ARGV[7])
    redis.call('ZREM', KEYS[3], ARGV[7])
    if account then
        redis.call('ZREM', account, ARGV[7])
    end
    return true
end

local own, total = account and redis.call('ZCARD', account) or 0, redis.call('ZCARD', KEYS[3])
local has_replaced = false
-- So far, both numbers may include records that have expired.
if own >= max_own or total >= max_total then
    if account then
        own = own - redis.call('ZREMRANGEBYSCORE', account, '-inf', text(now))
    end
    remove_expired(now)
    total = redis.call('ZCOUNT', KEYS[3], '(' .. text(now), '+inf')
    if own >= max_own or total >= max_total then
        has_replaced = own <= max_own and total <= max_total and replace()
        if not has_replaced then
            return {2, own, total}
        end
    end
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
add(ARGV[4], account, now, ttl, new)
return {1, has_replaced and 1 or 0, 0}
