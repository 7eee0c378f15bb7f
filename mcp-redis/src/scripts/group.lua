-- What the scripts have in common that change the records of a group. KEYS[1] is the record, KEYS[2] contains the names of
-- all records of the group, and KEYS[3] their times of expiry. Nothing else has to be in front of a script.
--
-- A record begins with its version of eight bytes, and its account with the length in front. The key of an account contains
-- the times of expiry of its records.

-- Reads the version and the account, which are empty if there are none.
local function header()
    local stored = redis.call('GETRANGE', KEYS[1], 0, 72)
    return string.sub(stored, 1, 8), string.sub(stored, 10, 9 + (string.byte(stored, 9) or 0))
end

-- Returns the key of an account, nil for the empty one.
local function account_key(account)
    return account ~= '' and KEYS[2] .. 'of:' .. account or nil
end

-- Returns the time in milliseconds.
local function current_time()
    local time = redis.call('TIME')
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function text(number)
    return string.format('%.0f', number)
end

-- Makes a list exist at least as long as a record. It exists longer than necessary, so that not every record prolongs it.
local function keep(list, ttl)
    if redis.call('PTTL', list) < ttl then
        redis.call('PEXPIRE', list, text(ttl + math.floor(ttl / 4)))
        return true
    end
end

-- Sets when a record of an account expires.
local function set_expiry(name, account, now, ttl)
    redis.call('ZADD', KEYS[3], text(now + ttl), name)
    if account then
        redis.call('ZADD', account, text(now + ttl), name)
        keep(account, ttl)
    end
    -- The two lists of a group are created, emptied and prolonged together.
    if keep(KEYS[2], ttl) then
        redis.call('PEXPIRE', KEYS[3], redis.call('PTTL', KEYS[2]))
    end
end

-- Removes names of records that have expired.
local function remove_expired(now)
    local expired = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', text(now), 'LIMIT', 0, 100)
    if expired[1] then
        redis.call('ZREM', KEYS[2], unpack(expired))
        redis.call('ZREM', KEYS[3], unpack(expired))
    end
end

-- Adds a new record to the lists. Its version is random: one of 64 removes more names of expired records than have
-- been added meanwhile.
local function add(name, account, now, ttl, version)
    redis.call('ZADD', KEYS[2], 0, name)
    set_expiry(name, account, now, ttl)
    if string.byte(version, 8) % 64 == 0 then
        remove_expired(now)
    end
end
