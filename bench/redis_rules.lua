-- The rules of leasing that the load needs, inside Redis. ARGV[1] is the operation, ARGV[2] the time in Unix ms.
-- rank: proxies that may be handed out, by active leases and latency; views, limits, latencies, active: by proxy id;
-- lease:<id>: a lease, kept for late reports; running: lease ids by end; cooldown:<target>: end by proxy id.

local operation, now = ARGV[1], tonumber(ARGV[2])

local function rerank(proxy)
  local active = tonumber(redis.call('HGET', 'active', proxy))
  if active >= tonumber(redis.call('HGET', 'limits', proxy)) then
    redis.call('ZREM', 'rank', proxy)
  else
    redis.call('ZADD', 'rank', active * 10000000 + tonumber(redis.call('HGET', 'latencies', proxy)), proxy)
  end
end

local function finish(lease)
  if redis.call('ZREM', 'running', lease) == 1 then
    local proxy = redis.call('HGET', 'lease:' .. lease, 'proxy')
    redis.call('HINCRBY', 'active', proxy, -1)
    rerank(proxy)
  end
end

for _, lease in ipairs(redis.call('ZRANGEBYSCORE', 'running', '-inf', now, 'LIMIT', 0, 100)) do
  finish(lease)
end

local function first_free(target)
  local from = 0
  while true do
    local proxies = redis.call('ZRANGE', 'rank', from, from + 15)
    if #proxies == 0 then return nil end
    for _, proxy in ipairs(proxies) do
      local ends = redis.call('HGET', 'cooldown:' .. target, proxy)
      if not ends or tonumber(ends) <= now then return proxy end
    end
    from = from + 16
  end
end

if operation == 'acquire' then
  local lease, target, ends, kept = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
  local proxy = redis.call('HGET', 'lease:' .. lease, 'proxy')
  if not proxy then
    proxy = first_free(target)
    if not proxy then return {redis.call('HLEN', 'views')} end
    redis.call('HSET', 'lease:' .. lease, 'proxy', proxy, 'target', target)
    redis.call('PEXPIREAT', 'lease:' .. lease, kept)
    redis.call('ZADD', 'running', ends, lease)
    redis.call('HINCRBY', 'active', proxy, 1)
    rerank(proxy)
  end
  return {proxy, redis.call('HGET', 'views', proxy), redis.call('HGET', 'active', proxy)}
end

if operation == 'release' then
  finish(ARGV[3])
  redis.call('DEL', 'lease:' .. ARGV[3])
  return 1
end

if operation == 'proxy' then
  local proxy, view, limit, latency = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
  redis.call('HSET', 'views', proxy, view)
  redis.call('HSET', 'limits', proxy, limit)
  redis.call('HSET', 'latencies', proxy, latency)
  redis.call('HSET', 'active', proxy, 0)
  rerank(proxy)
  return 1
end

return redis.error_reply('unknown operation')
