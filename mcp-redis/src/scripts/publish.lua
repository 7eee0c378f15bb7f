-- Publishes a message. As a script with a key, it is always executed by the same node of a cluster, which keeps the order
-- of messages.
--
-- KEYS: the channel
-- ARGV: the message
redis.call('PUBLISH', KEYS[1], ARGV[1])
