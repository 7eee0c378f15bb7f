-- Deletes a log, and announces it.
--
-- KEYS: the log
-- ARGV: the channel
if redis.call('DEL', KEYS[1]) == 1 then
    redis.call('PUBLISH', ARGV[1], '')
end
