import type { Clock } from "@keelson/api-machinery/time";
import { ensurePki, type Pki } from "./pki.ts";

/** What {@link startCertificateRenewal} takes. */
export interface CertificateRenewalOptions {
  /** As {@link ensurePki} has it, which says when what is renewed. */
  readonly directory: string;
  readonly hosts: readonly string[];
  /** What is in use now. */
  readonly pki: Pki;
  readonly clock: Clock;
  /** Puts renewed keys and certificates to use. */
  readonly use: (renewed: Pki) => Promise<void> | void;
  /** Is told why a renewal failed; the next look tries again. Default: ignored. */
  readonly onError?: ((error: unknown) => void) | undefined;
}

/** A day: certificates are renewed 30 of them before they expire. */
const checkIntervalMs = 24 * 60 * 60 * 1000;

/** Looks every day whether keys and certificates are to be renewed, and has what is new used, until it is stopped. */
export function startCertificateRenewal(options: CertificateRenewalOptions): { stop(): Promise<void> } {
  const { directory, hosts, clock, use, onError } = options;
  let current = options.pki;
  let isStopped = false;
  let looking = Promise.resolve();

  const look = async (): Promise<void> => {
    try {
      const pki = await ensurePki(directory, clock.now(), hosts);
      if (isStopped || isSame(pki, current)) return;
      await use(pki);
      current = pki;
    } catch (error) {
      onError?.(error);
    }
  };
  const wait = () =>
    clock.setTimer(
      checkIntervalMs,
      () => {
        looking = look().then(() => {
          if (!isStopped) timer = wait();
        });
      },
      { background: true },
    );
  let timer = wait();
  return {
    async stop() {
      isStopped = true;
      timer.cancel();
      await looking;
    },
  };
}

function isSame(a: Pki, b: Pki): boolean {
  return (["authority", "server", "admin"] as const).every((name) => a[name].certificate === b[name].certificate);
}
