import { startTestKeelson, type TestKeelson } from "./local-keelson.ts";

/** Kills `keelson up` with SIGKILL and starts another one on the same data directory. */
export async function killAndRestart(first: TestKeelson, dir: string, ...flags: string[]): Promise<TestKeelson> {
  first.process.child.kill("SIGKILL");
  await first.process.exited;
  return startTestKeelson(dir, ...flags);
}
