import { readFile } from "node:fs/promises";
import { createCertificateAuthority, issueCertificate, type KeyPair } from "@keelson/api-machinery/certificates";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import { choiceFlag, type FlagValues, textFlag, UsageError } from "@keelson/operator/flags";
import { type BindAddress, isLoopback } from "./bind-address.ts";

/** Flags of the certificate of the metrics listener. */
export const metricsTlsFlags = {
  mode: choiceFlag({
    name: "metrics-tls",
    value: "MODE",
    description: "whether /metrics is served over TLS: auto means beyond loopback, and with a certificate",
    choices: ["auto", "always", "never"],
    default: "auto",
  }),
  certificateFile: textFlag({
    name: "metrics-tls-cert-file",
    value: "FILE",
    description: "certificate of /metrics, reloaded when it changes (default: a self-signed one)",
  }),
  keyFile: textFlag({
    name: "metrics-tls-private-key-file",
    value: "FILE",
    description: "private key of --metrics-tls-cert-file",
  }),
};

/** Self-signed certificates are not renewed while the process runs. */
const lifeMs = 10 * 365 * 24 * 60 * 60 * 1000;
/** Tolerates clock differences between machines. */
const backdateMs = 60 * 60 * 1000;
const reloadMs = 60_000;

/** The certificate of a listener. */
export interface ListenerCertificate {
  readonly initial: KeyPair;
  /** Calls `apply` with each later certificate until the returned function is called. */
  follow(apply: (pair: KeyPair) => void): () => void;
}

/**
 * The certificate that the flags select for the metrics listener; undefined: no TLS.
 *
 * **Errors**: `UsageError` if a file cannot be read, or only one of the two is named.
 */
export async function metricsCertificate(
  flags: FlagValues,
  address: BindAddress | undefined,
  context: { readonly clock: Clock; readonly log: Logger },
): Promise<ListenerCertificate | undefined> {
  const [certificateFile, keyFile] = [metricsTlsFlags.certificateFile.read(flags), metricsTlsFlags.keyFile.read(flags)];
  if ((certificateFile === undefined) !== (keyFile === undefined))
    throw new UsageError("--metrics-tls-cert-file and --metrics-tls-private-key-file must be set together");
  const mode = metricsTlsFlags.mode.read(flags);
  if (address === undefined || mode === "never") return undefined;
  if (certificateFile === undefined || keyFile === undefined)
    return mode === "auto" && isLoopback(address) ? undefined : selfSigned(address, context.clock);
  return certificateFiles(certificateFile, keyFile, context);
}

async function selfSigned({ host }: BindAddress, clock: Clock): Promise<ListenerCertificate> {
  const now = clock.now();
  const validity = { notBefore: new Date(now - backdateMs), notAfter: new Date(now + lifeMs) };
  const authority = await createCertificateAuthority("keelson-metrics-ca", validity.notBefore, validity.notAfter);
  const own = ["0.0.0.0", "::"].includes(host) ? [] : [host];
  const hosts = [...new Set(["localhost", "127.0.0.1", "::1", ...own])];
  const initial = await issueCertificate(authority, { commonName: "keelson-metrics", usage: "server", hosts, ...validity });
  return { initial, follow: () => () => {} };
}

async function certificateFiles(
  certificateFile: string,
  keyFile: string,
  { clock, log }: { readonly clock: Clock; readonly log: Logger },
): Promise<ListenerCertificate> {
  const read = async (): Promise<KeyPair> => {
    const [certificate, key] = await Promise.all([readFile(certificateFile, "utf8"), readFile(keyFile, "utf8")]);
    return { certificate, key };
  };
  const initial = await read().catch((error: unknown) => {
    throw new UsageError(`--metrics-tls-cert-file: ${error instanceof Error ? error.message : String(error)}`);
  });
  return {
    initial,
    follow(apply) {
      let current = initial;
      const reload = async (): Promise<void> => {
        const next = await read();
        if (next.certificate === current.certificate && next.key === current.key) return;
        apply(next);
        current = next;
      };
      const warn = (err: unknown): void => log.warn({ err }, "could not reload the certificate of /metrics; retrying");
      let timer: Timer;
      let isStopped = false;
      const schedule = (): void => {
        if (!isStopped) timer = clock.setTimer(reloadMs, () => void reload().catch(warn).then(schedule), { background: true });
      };
      schedule();
      return () => {
        isStopped = true;
        timer.cancel();
      };
    },
  };
}
