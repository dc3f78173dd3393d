// A worker on node-redis with its default options: node node_redis_worker.mjs port queue n

import { createClient } from 'redis';

import { giveUp, parseArguments, work } from './worker.mjs';

const { port, queue, n } = parseArguments();
const client = createClient({ url: `redis://127.0.0.1:${port}` });
client.on('error', giveUp);
await client.connect();
const result = await work((...command) => client.sendCommand(command), queue, n);
await client.close();
console.log(JSON.stringify(result));
