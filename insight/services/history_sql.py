"""The statements of `history`: a slice is drafted in a table of the session's own, from which each table is filled."""

# `again`: failed attempts before the last one; `seq`: number of the last event.
DRAFT_TABLE = """
CREATE TEMPORARY TABLE IF NOT EXISTS history_draft (
  id uuid, callback uuid, trace text, namespace text, client text, ability text, agent text, instance text,
  correlation text, outcome text, code text, at timestamptz, sent timestamptz, ended timestamptz, due timestamptz,
  run_ms int, tries smallint, again smallint, progress smallint, seq int, told text
)"""

# Shares: four in five tasks are of the first namespace, one in two thousand of the fourth; the fifth had its time long
# ago. Abilities, and clients too, are the rarer the later they stand in their list.
DRAFT = """
WITH drawn AS MATERIALIZED (
  SELECT n, (%(start)s + n * %(step)s::float8)::bigint AS ms, md5(%(salt)s || n) AS hex, md5(n || %(salt)s) AS other,
    random() AS a, random() AS b, random() AS c, random() AS d, random() AS e, random() AS f, random() AS g,
    n >= %(tasks)s - %(open)s AS open
  FROM generate_series(%(first)s::bigint, %(last)s::bigint) n
), placed AS (
  SELECT *, (%(abilities)s::text[])[1 + floor(20 * b * b)::int] AS ability,
    CASE WHEN n < %(tasks)s * 0.01 AND c < 0.1 THEN 5 WHEN a < 0.8 THEN 1 WHEN a < 0.95 THEN 2 WHEN a < 0.9995 THEN 3
      ELSE 4 END AS space,
    CASE WHEN open THEN NULL WHEN d < 0.93 THEN 'SUCCEEDED' WHEN d < 0.975 THEN 'FAILED' WHEN d < 0.995 THEN 'TIMEOUT'
      ELSE 'CANCELLED' END AS outcome, to_timestamp(ms / 1000.0) AS at, (40 * exp(4 * e))::int AS run_ms
  FROM drawn
), coded AS (
  SELECT *, CASE outcome
    WHEN 'FAILED' THEN (ARRAY['LOOP_DETECTED', 'BAD_RESPONSE', 'INTERNAL_ERROR', 'UNREACHABLE', 'REJECTED',
      'AGENT_FAILED'])[CASE WHEN e < 0.001 THEN 1 ELSE least(6, 2 + floor(5 * sqrt(e))::int) END]
    WHEN 'TIMEOUT' THEN CASE WHEN e < 0.2 THEN 'NO_INSTANCE' ELSE 'TIMEOUT' END
    WHEN 'CANCELLED' THEN 'CANCELLED' END AS code
  FROM placed
), tried AS (
  SELECT *, CASE WHEN code = 'NO_INSTANCE' OR open AND g < 0.5 THEN 0 WHEN d > 0.9 AND NOT open THEN 2 ELSE 1 END
      AS tries, CASE WHEN f < 0.6 THEN 1 ELSE 0 END AS progress
  FROM coded
), timed AS (
  SELECT *, greatest(tries - 1, 0) AS again,
    CASE WHEN tries > 0 THEN at + interval '8 ms' + (tries - 1) * interval '1050 ms' END AS sent,
    CASE WHEN outcome IS NOT NULL THEN at + greatest(tries, 1) * interval '1050 ms' + run_ms * interval '1 ms' END
      AS ended
  FROM tried
)
INSERT INTO history_draft
SELECT (lpad(to_hex(ms), 12, '0') || '7' || left(hex, 3) || '8' || substr(hex, 4, 15))::uuid,
  CASE WHEN NOT open AND f < 0.7
    THEN (lpad(to_hex(ms), 12, '0') || '7' || left(other, 3) || '8' || substr(other, 4, 15))::uuid END,
  md5('trace' || %(salt)s || n - CASE WHEN g < 0.05 THEN 1 ELSE 0 END), (%(namespaces)s::text[])[space],
  (%(clients)s::text[])[1 + floor(8 * c * c)::int], ability,
  replace(ability, '.', '-') || CASE WHEN g < 0.1 THEN '-v2' ELSE '' END, 'i-' || 1 + floor(3 * e)::int,
  CASE WHEN f < 0.6 THEN 'order-' || %(salt)s || '-' || n END, outcome, code, at, sent, ended,
  CASE WHEN open THEN %(now)s::timestamptz + interval '1 day' ELSE at + interval '60 s' END, run_ms, tries, again,
  progress, CASE tries WHEN 0 THEN 2 ELSE 3 * again + 4 + progress END + CASE WHEN open THEN 0 ELSE 1 END,
  CASE WHEN f < 0.02 THEN 'DEAD' ELSE 'DELIVERED' END
FROM timed"""

_TASK = """
INSERT INTO routing_task (id, namespace, client, ability, correlation_id, trace_id, traceparent, call_path, priority,
  state, state_since, outcome, seq, waiting, due_at, attempts, max_attempts, round, agent_id, instance_id,
  idempotency_key, created_at, budget_at, expires_at, deadline_at, sent_at, received_at, completed_at, ended_at,
  error_code, error_message, error_retryable, timings, callback_id)
SELECT id, namespace, client, ability, correlation, trace, '', '[]', 1,
  coalesce(outcome, CASE tries WHEN 0 THEN 'RECEIVED' ELSE 'RUNNING' END), coalesce(ended, at), outcome, seq,
  outcome IS NULL AND tries = 0, at, tries, 3, 1, CASE WHEN tries > 0 THEN agent END,
  CASE WHEN tries > 0 THEN instance END, coalesce(correlation, id::text), at, due, due, due, sent,
  sent + interval '2 ms', CASE outcome WHEN 'SUCCEEDED' THEN ended END, ended, code,
  CASE WHEN code IS NOT NULL THEN 'the model of ' || ability || ' gave up on ' || client END,
  CASE WHEN code IS NOT NULL THEN outcome = 'TIMEOUT' END,
  jsonb_build_object('queuedMs', 6, 'routingMs', 0.4, 'connectMs', 1, 'agentMs', run_ms), callback
FROM history_draft"""

_BODY = """
INSERT INTO routing_taskbody (task_id, request, result)
SELECT id, convert_to(jsonb_build_object('target', jsonb_build_object('ability', ability), 'payload',
    jsonb_build_object('title', 'Cannot log in', 'content', 'Password refused since this morning, tried ' || run_ms
      || ' times, also on another machine and with a new browser.', 'channel', client))::text, 'UTF8'),
  CASE outcome WHEN 'SUCCEEDED' THEN convert_to('{"status":"SUCCEEDED","data":{"category":"login","confidence":0.9},'
    || '"degraded":false,"degradedBy":null,"agent":{"agentId":"' || agent || '","instanceId":"' || instance
    || '"},"usage":{"tokens":' || run_ms || '},"cost":{"amount":0.002,"currency":"USD"}}', 'UTF8') END
FROM history_draft"""

_IDEMPOTENCY = """
INSERT INTO routing_idempotency (namespace, client, correlation_id, task_id, digest)
SELECT namespace, client, correlation, id, sha256(id::text::bytea) FROM history_draft WHERE correlation IS NOT NULL"""

_ATTEMPT = """
INSERT INTO routing_attempt (task_id, number, key, namespace, agent_id, instance_id, capability, channel, certainty,
  outcome, code, message, sent_at, received_at, deadline_at, ended_at, decision)
SELECT d.id, k, gen_random_uuid(), d.namespace, d.agent, d.instance, d.ability, 'http',
  CASE WHEN k < d.tries THEN 'NOT_SENT' WHEN d.outcome = 'SUCCEEDED' THEN 'RAN' ELSE 'MAYBE_RAN' END,
  CASE WHEN k < d.tries THEN 'FAILED' ELSE d.outcome END, CASE WHEN k < d.tries THEN 'UNREACHABLE' ELSE d.code END,
  CASE WHEN k < d.tries THEN 'connection refused' END, d.sent - (d.tries - k) * interval '1050 ms',
  CASE WHEN k = d.tries THEN d.sent + interval '2 ms' END, d.due,
  CASE WHEN k < d.tries THEN d.sent - interval '1 s' ELSE d.ended END,
  jsonb_build_object('strategy', 'least_conn', 'tookMs', 0.4,
    'chosen', jsonb_build_object('agentId', d.agent, 'instanceId', d.instance),
    'candidates', jsonb_build_array(
      jsonb_build_object('agentId', d.agent, 'instanceId', d.instance, 'score', 0.93, 'inflight', 1, 'rejected', NULL),
      jsonb_build_object('agentId', d.agent, 'instanceId', 'i-9', 'score', 0.4, 'inflight', 8, 'rejected', 'FULL')))
FROM history_draft d CROSS JOIN LATERAL generate_series(1, d.tries) k"""

_EVENT = """
INSERT INTO routing_event (task_id, seq, at, event, from_state, to_state, attempt, agent_id, instance_id, node,
  elapsed_ms, detail)
SELECT e.id, e.seq, e.at, e.event, e.old, e.new, e.attempt, CASE WHEN e.attempt > 0 THEN e.agent END,
  CASE WHEN e.attempt > 0 THEN e.instance END, 'worker-1:812', extract(epoch FROM e.at - e.start) * 1000, e.detail
FROM (
  SELECT id, 1 AS seq, at, at AS start, 'RECEIVED' AS event, NULL AS old, 'RECEIVED' AS new, NULL::int AS attempt,
    agent, instance, NULL::jsonb AS detail FROM history_draft
  UNION ALL
  SELECT id, 2, at + interval '9 ms', at, 'WAITING', 'RECEIVED', 'RECEIVED', NULL, agent, instance,
    '{"reason": "NO_INSTANCE"}' FROM history_draft WHERE tries = 0
  UNION ALL
  SELECT d.id, 3 * k + s.seq, d.at + (k - 1) * interval '1050 ms' + s.seq * interval '4 ms', d.at, s.event, s.old,
    s.new, k, d.agent, d.instance, NULL
  FROM history_draft d CROSS JOIN LATERAL generate_series(1, d.again) k
    CROSS JOIN (VALUES (-1, 'ROUTED', 'RECEIVED', 'ROUTED'), (0, 'DISPATCHED', 'ROUTED', 'DISPATCHED'),
      (1, 'RETRY_WAIT', 'DISPATCHED', 'RETRY_WAIT')) s (seq, event, old, new)
  UNION ALL
  SELECT d.id, 3 * d.again + s.seq, d.sent + s.seq * interval '1 ms', d.at, s.event, s.old, s.new, d.tries, d.agent,
    d.instance, NULL
  FROM history_draft d CROSS JOIN (VALUES (2, 'ROUTED', 'RECEIVED', 'ROUTED'),
    (3, 'DISPATCHED', 'ROUTED', 'DISPATCHED'), (4, 'RUNNING', 'DISPATCHED', 'RUNNING'),
    (5, 'PROGRESS', 'RUNNING', 'RUNNING')) s (seq, event, old, new)
  WHERE d.tries > 0 AND s.seq < 5 + d.progress
  UNION ALL
  SELECT id, seq, ended, at, outcome, CASE tries WHEN 0 THEN 'RECEIVED' ELSE 'RUNNING' END, outcome, nullif(tries, 0),
    agent, instance, NULL FROM history_draft WHERE outcome IS NOT NULL
) e"""

_CALLBACK = """
INSERT INTO callbacks_callback (id, subject_id, namespace, client, url, traceparent, body, schedule, state, attempts,
  series, last_error, created_at, ended_at)
SELECT callback, id, namespace, client, 'https://' || client || '.example/reach', '',
  convert_to('{"schemaVersion":"1.0","messageType":"task.result","taskId":"' || id || '"}', 'UTF8'), 'standard', told,
  CASE told WHEN 'DEAD' THEN 6 ELSE 1 END, CASE told WHEN 'DEAD' THEN 6 ELSE 1 END,
  CASE told WHEN 'DEAD' THEN 'HTTP 503' END, ended,
  ended + CASE told WHEN 'DEAD' THEN interval '1110 s' ELSE interval '20 ms' END
FROM history_draft WHERE callback IS NOT NULL"""

_DELIVERY = """
INSERT INTO callbacks_delivery (callback_id, number, at, status, error, took_ms, answer)
SELECT callback, k, ended + (k - 1) * interval '222 s', CASE told WHEN 'DEAD' THEN 503 ELSE 204 END,
  CASE told WHEN 'DEAD' THEN 'HTTP 503' END, 12, CASE told WHEN 'DEAD' THEN 'try again later'::bytea END
FROM history_draft CROSS JOIN LATERAL generate_series(1, CASE told WHEN 'DEAD' THEN 6 ELSE 1 END) k
WHERE callback IS NOT NULL"""

TABLES = (_TASK, _BODY, _IDEMPOTENCY, _ATTEMPT, _EVENT, _CALLBACK, _DELIVERY)
