import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { Etcd3 } from "etcd3";

/** A server in a process of its own. */
export interface ServerProcess {
  /** From the start of the process until it served, ms. */
  readonly startMs: number;
  /** Bytes of memory that are its own: without files that are mapped. */
  memoryBytes(): number;
  stop(): Promise<void>;
}

/** Starts a Keelson API server on `dir`; `dir/kubeconfig` leads to it. */
export async function startKeelsonServer(dir: string): Promise<ServerProcess> {
  const program = fileURLToPath(new URL("./server-program.js", import.meta.url));
  const started = performance.now();
  const child = spawn(process.execPath, [program, dir], { stdio: ["ignore", "pipe", "inherit"] });
  for await (const line of createInterface({ input: child.stdout })) {
    if (line.startsWith("serves ")) return processOf(child, performance.now() - started);
  }
  throw new Error("the API server ended before it served");
}

/** Starts Debian's etcd on `dir`, on a free port of the loopback. */
export async function startEtcd(dir: string): Promise<ServerProcess & { readonly client: Etcd3 }> {
  const [url, peer] = await Promise.all([freeUrl(), freeUrl()]);
  const started = performance.now();
  const child = spawn(
    "/usr/bin/etcd",
    [
      ...["--data-dir", dir, "--log-level", "error", "--listen-client-urls", url, "--advertise-client-urls", url],
      ...["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", `default=${peer}`],
    ],
    { stdio: "ignore" },
  );
  const client = new Etcd3({ hosts: url, grpcOptions: { "grpc.max_receive_message_length": -1 } });
  for (let attempt = 0; ; attempt++) {
    try {
      await client.get("any");
      break;
    } catch (error) {
      // It has no line that says that it serves.
      if (attempt > 2_000 || child.exitCode !== null) throw error;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }
  const server = processOf(child, performance.now() - started);
  return {
    ...server,
    client,
    async stop() {
      client.close();
      await server.stop();
    },
  };
}

function processOf(child: ChildProcess, startMs: number): ServerProcess {
  return {
    startMs,
    memoryBytes() {
      const kib = /^RssAnon:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${child.pid}/status`, "utf8"))?.[1];
      if (kib === undefined) throw new Error(`process ${child.pid} has ended`);
      return Number(kib) * 1024;
    },
    async stop() {
      const exited = once(child, "exit");
      child.kill("SIGKILL");
      await exited;
    },
  };
}

async function freeUrl(): Promise<string> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  return `http://127.0.0.1:${port}`;
}
