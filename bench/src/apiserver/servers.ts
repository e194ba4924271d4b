import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { delimiter, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { Etcd3 } from "etcd3";
import { componentOptions } from "keelson/testing";
import { MissingPeerError } from "../missing-peer.ts";
import { cpuMs, residentMiB } from "../process-use.ts";
import type { Service } from "./raw/service.ts";
import type { LongestTurns } from "./turns.ts";

/** A server in a separate process. */
export interface ServerProcess {
  /** From the start of the process until it serves, in ms. */
  readonly startMs: number;
  /** How its clients reach it. */
  readonly service: Service;
  /** Anonymous memory, without mapped files. */
  memoryBytes(): number;
  /** Resident memory, with mapped files. */
  residentMiB(): number;
  /** CPU time used so far. */
  cpuMs(): number;
  stop(): Promise<void>;
}

/** An API server of Keelson. */
export interface KeelsonServer extends ServerProcess {
  /** The longest turns of its event loop since the last call; of the first call, nothing. */
  takeLongestTurns(): Promise<LongestTurns>;
}

/** Starts a Keelson API server on `dir` with the V8 options of `keelson up`, with a kubeconfig in `dir/kubeconfig`. */
export async function startKeelsonServer(dir: string): Promise<KeelsonServer> {
  const program = fileURLToPath(new URL("./server-program.js", import.meta.url));
  const started = performance.now();
  const child = spawn(process.execPath, [...componentOptions(), program, dir], { stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const line = async (): Promise<string> => {
    const { done, value } = await lines.next();
    if (done === true) throw new Error("the API server exited");
    return value;
  };
  while (!(await line()).startsWith("serves "));
  return {
    ...processOf(child, performance.now() - started, kubernetesService(join(dir, "kubeconfig"))),
    async takeLongestTurns() {
      child.stdin.write("\n");
      return JSON.parse(await line()) as LongestTurns;
    },
  };
}

/** The service of a kubeconfig that Keelson has written, as its administrator. */
function kubernetesService(kubeconfig: string): Service {
  const text = readFileSync(kubeconfig, "utf8");
  const field = (name: string): string => new RegExp(`${name}: *"?([^\\s"]+)`).exec(text)?.[1] ?? "";
  const decoded = (name: string): string => Buffer.from(field(name), "base64").toString();
  return {
    kind: "kubernetes",
    target: {
      port: Number(new URL(field("server")).port),
      tls: {
        ca: decoded("certificate-authority-data"),
        cert: decoded("client-certificate-data"),
        key: decoded("client-key-data"),
      },
    },
  };
}

/** The path of a program, or undefined if it is not in PATH. */
export function findProgram(name: string): string | undefined {
  const folders = (process.env.PATH ?? "").split(delimiter).filter((folder) => folder !== "");
  return folders.map((folder) => join(folder, name)).find((path) => existsSync(path));
}

/** Starts the etcd in PATH on `dir`, on a free loopback port. **Errors**: {@link MissingPeerError} if it is not installed. */
export async function startEtcd(dir: string): Promise<ServerProcess & { readonly client: Etcd3; readonly url: string }> {
  const etcd = findProgram("etcd");
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
  await answered(child, async () => client.get("any"));
  const server = processOf(child, performance.now() - started, { kind: "etcd", url });
  return {
    ...server,
    client,
    url,
    async stop() {
      client.close();
      await server.stop();
    },
  };
}

/** Waits for a server that does not print when it is ready. */
export async function answered(child: ChildProcess, ask: () => Promise<unknown>): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    try {
      await ask();
      return;
    } catch (error) {
      if (attempt > 6_000 || child.exitCode !== null) throw error;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }
}

/** A started server as the benchmarks use it. */
export function processOf(child: ChildProcess, startMs: number, service: Service): ServerProcess {
  return {
    startMs,
    service,
    memoryBytes() {
      const kib = /^RssAnon:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${child.pid}/status`, "utf8"))?.[1];
      if (kib === undefined) throw new Error(`process ${child.pid} has exited`);
      return Number(kib) * 1024;
    },
    residentMiB: () => residentMiB(child.pid),
    cpuMs: () => cpuMs(child.pid),
    async stop() {
      const exited = once(child, "exit");
      child.kill("SIGKILL");
      await exited;
    },
  };
}

/** A URL on the loopback interface with a free port. */
export async function freeUrl(): Promise<string> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  return `http://127.0.0.1:${port}`;
}
