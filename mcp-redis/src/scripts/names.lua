-- Returns names of the records of a group in their order, some of which may have expired.
--
-- KEYS: any, the names, and the times of expiry, of the records of the group
-- ARGV: the start of the range, and the maximum number of names
remove_expired(current_time())
return redis.call('ZRANGEBYLEX', KEYS[2], ARGV[1], '+', 'LIMIT', 0, ARGV[2])
