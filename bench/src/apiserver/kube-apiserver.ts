import { spawn } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { MissingPeerError } from "../missing-peer.ts";
import { HttpConnection, type HttpTarget } from "./raw/http-connection.ts";
import { answered, findProgram, freeUrl, processOf, type ServerProcess, startEtcd } from "./servers.ts";

const token = "bench-0123456789abcdef";

/**
 * Starts the kube-apiserver in PATH on its own etcd, with RBAC and a user of `system:masters`. `memoryBytes` and `cpuMs` are those of
 * kube-apiserver without etcd.
 *
 * **Errors**: {@link MissingPeerError} if either is not installed.
 */
export async function startKubeApiServer(dir: string): Promise<ServerProcess> {
  const program = findProgram("kube-apiserver");
  if (program === undefined) throw new MissingPeerError("kube-apiserver not found in PATH; download it from https://dl.k8s.io");
  const etcd = await startEtcd(join(dir, "etcd"));
  const port = Number(new URL(await freeUrl()).port);
  writeCredentials(dir);
  const started = performance.now();
  const flags = {
    "etcd-servers": etcd.url,
    "service-account-issuer": "https://kubernetes.default.svc",
    "service-account-key-file": join(dir, "sa.pub"),
    "service-account-signing-key-file": join(dir, "sa.key"),
    "token-auth-file": join(dir, "tokens.csv"),
    "authorization-mode": "RBAC",
    "service-cluster-ip-range": "10.96.0.0/16",
    "bind-address": "127.0.0.1",
    "advertise-address": "127.0.0.1",
    "secure-port": port,
    "cert-dir": join(dir, "certs"),
    "endpoint-reconciler-type": "none",
  };
  const child = spawn(
    program,
    Object.entries(flags).map(([name, value]) => `--${name}=${value}`),
    { stdio: "ignore" },
  );
  const target: HttpTarget = { port, tls: { rejectUnauthorized: false }, token };
  await answered(child, async () => {
    const connection = await HttpConnection.open(target);
    await connection.request("GET", "/readyz").finally(() => connection.close());
  });
  const server = processOf(child, performance.now() - started, { kind: "kubernetes", target });
  return {
    ...server,
    async stop() {
      await server.stop();
      await etcd.stop();
    },
  };
}

function writeCredentials(dir: string): void {
  mkdirSync(dir, { recursive: true });
  const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  writeFileSync(join(dir, "sa.key"), privateKey.export({ type: "pkcs1", format: "pem" }));
  writeFileSync(join(dir, "sa.pub"), publicKey.export({ type: "spki", format: "pem" }));
  writeFileSync(join(dir, "tokens.csv"), `${token},bench,bench,"system:masters"\n`);
}
