import { createInterface } from "node:readline";
import { connectService, type Service } from "./service.ts";

/**
 * Opens watches, each on its own connection, in its own process. Arguments: SERVICE (JSON) COUNT. Prints `ready`, and for each
 * line of input the number of events received so far, once that is at least the number in the line.
 */
const [json = "", text = "0"] = process.argv.slice(2);
const service: Service = JSON.parse(json);
let received = 0;
let awaited = Number.POSITIVE_INFINITY;

const report = (): void => {
  if (received < awaited) return;
  awaited = Number.POSITIVE_INFINITY;
  console.log(received);
};

for (let index = 0; index < Number(text); index++) {
  const client = await connectService(service);
  await client.watch((count) => {
    received += count;
    report();
  });
}
console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  awaited = Number(line);
  report();
}
process.exit(0);
