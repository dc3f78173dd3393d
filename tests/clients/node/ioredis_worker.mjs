// A worker on ioredis with its default options: node ioredis_worker.mjs port queue n

import { Redis } from 'ioredis';

import { giveUp, parseArguments, work } from './worker.mjs';

const { port, queue, n } = parseArguments();
const redis = new Redis(port, '127.0.0.1');
redis.on('error', giveUp);
const result = await work((...command) => redis.call(...command), queue, n);
await redis.quit();
console.log(JSON.stringify(result));
