// The worker loop that both Node clients run. `call` sends one command and resolves to its reply.
//
// Puts n jobs, takes them one at a time and acknowledges each, but fails the job named 'job 1' once and expects to
// see it again as its second attempt. Throws on any reply that isn't what the protocol promises.

import assert from 'node:assert/strict';

export async function work(call, queue, n) {
  assert.equal(await call('QDECLARE', queue), 'OK');
  const ids = [];
  for (let i = 1; i <= n; i++) ids.push(await call('QPUT', queue, `job ${i}`, 'HEADER', 'n', String(i)));
  assert.equal(new Set(ids).size, n);

  const acked = new Set();
  let retried = 0;
  for (;;) {
    const deliveries = await call('QLEASE', queue, 'WAIT', '1');
    assert.ok(Array.isArray(deliveries), `QLEASE answered ${JSON.stringify(deliveries)}`);
    if (deliveries.length === 0) break;
    for (const [from, id, lease, attempt, body] of deliveries) {
      assert.equal(from, queue);
      assert.ok(ids.includes(id), `a job that was never put: ${id}`);
      if (body === 'job 1' && attempt === 1) {
        assert.equal(await call('QNACK', queue, lease, 'DELAY', '0', 'ERROR', 'failed on purpose'), 1);
        continue;
      }
      assert.equal(attempt, body === 'job 1' ? 2 : 1);
      if (attempt === 2) retried += 1;
      assert.equal(await call('QACK', queue, lease), 1);
      acked.add(id);
    }
  }
  return { put: ids.length, acked: acked.size, retried };
}

export function parseArguments() {
  const [port, queue, n] = process.argv.slice(2);
  assert.ok(n, 'usage: node PROGRAM port queue n');
  return { port: Number(port), queue, n: Number(n) };
}

// A client that can't connect would try again for ever, so the first error ends the program.
export function giveUp(error) {
  console.error(error);
  process.exit(1);
}
