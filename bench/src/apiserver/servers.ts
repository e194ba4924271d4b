import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { delimiter, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { Etcd3 } from "etcd3";
import { MissingPeerError } from "../missing-peer.ts";

/** A server in a separate process. */
export interface ServerProcess {
  /** From the start of the process until it serves, in ms. */
  readonly startMs: number;
  /** Anonymous memory, without mapped files. */
  memoryBytes(): number;
  stop(): Promise<void>;
}

/** Starts a Keelson API server on `dir`, with a kubeconfig in `dir/kubeconfig`. */
export async function startKeelsonServer(dir: string): Promise<ServerProcess> {
  const program = fileURLToPath(new URL("./server-program.js", import.meta.url));
  const started = performance.now();
  const child = spawn(process.execPath, [program, dir], { stdio: ["ignore", "pipe", "inherit"] });
  for await (const line of createInterface({ input: child.stdout })) {
    if (line.startsWith("serves ")) return processOf(child, performance.now() - started);
  }
  throw new Error("the API server exited before it was ready");
}

/** The path of etcd, or undefined if it is not in PATH. */
function findEtcd(): string | undefined {
  const folders = (process.env.PATH ?? "").split(delimiter).filter((folder) => folder !== "");
  return folders.map((folder) => join(folder, "etcd")).find((path) => existsSync(path));
}

/** Starts the etcd in PATH on `dir`, on a free loopback port. **Errors**: {@link MissingPeerError} if it is not installed. */
export async function startEtcd(dir: string): Promise<ServerProcess & { readonly client: Etcd3 }> {
  const etcd = findEtcd();
  if (etcd === undefined) throw new MissingPeerError("etcd not found in PATH; install it with apt-get install etcd-server");
  const [url, peer] = await Promise.all([freeUrl(), freeUrl()]);
  const started = performance.now();
  const child = spawn(
    etcd,
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
      // etcd does not print when it is ready.
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
      if (kib === undefined) throw new Error(`process ${child.pid} has exited`);
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
