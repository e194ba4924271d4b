import type { Clock } from "@keelson/api-machinery/time";
import { ensurePki, type Pki } from "./pki.ts";

/** What {@link startCertificateRenewal} takes. */
export interface CertificateRenewalOptions {
  /** The directory of {@link ensurePki}, which decides what to renew. */
  readonly directory: string;
  readonly hosts: readonly string[];
  /** The keys and certificates currently in use. */
  readonly pki: Pki;
  readonly clock: Clock;
  /** Starts using renewed keys and certificates. */
  readonly use: (renewed: Pki) => Promise<void> | void;
  /** Called if a renewal fails; the next check retries. Default: ignored. */
  readonly onError?: ((error: unknown) => void) | undefined;
}

/** Daily, since certificates are renewed 30 days before they expire. */
const checkIntervalMs = 24 * 60 * 60 * 1000;

/** Checks daily whether keys and certificates need renewal, until stopped. */
export function startCertificateRenewal(options: CertificateRenewalOptions): { stop(): Promise<void> } {
  const { directory, hosts, clock, use, onError } = options;
  let current = options.pki;
  let isStopped = false;
  let checking = Promise.resolve();

  const check = async (): Promise<void> => {
    try {
      const pki = await ensurePki(directory, clock.now(), hosts);
      if (isStopped || isSame(pki, current)) return;
      await use(pki);
      current = pki;
    } catch (error) {
      onError?.(error);
    }
  };
  const schedule = () =>
    clock.setTimer(
      checkIntervalMs,
      () => {
        checking = check().then(() => {
          if (!isStopped) timer = schedule();
        });
      },
      { background: true },
    );
  let timer = schedule();
  return {
    async stop() {
      isStopped = true;
      timer.cancel();
      await checking;
    },
  };
}

function isSame(a: Pki, b: Pki): boolean {
  return (["authority", "server", "admin", "frontProxyAuthority", "frontProxy", "kubeletClient"] as const).every(
    (name) => a[name].certificate === b[name].certificate,
  );
}
