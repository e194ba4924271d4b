import { once } from "node:events";
import { createServer } from "node:net";

/** Below the ports that Linux hands out by default (32768 and up) and Kubernetes' node ports (30000 and up). */
const ports = { from: 10_000, count: 20_000 };

/**
 * Finds a free TCP port of 127.0.0.1 for a server that starts later, or starts again. As neither outgoing connections nor listeners on port 0
 * get such a port, it stays free unless a program asks for it by number.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = ports.from + Math.floor(Math.random() * ports.count);
    if (await isFree(port)) return port;
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, "127.0.0.1");
  try {
    await once(server, "listening");
  } catch {
    return false;
  }
  server.close();
  await once(server, "close");
  return true;
}
