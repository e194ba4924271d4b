import type { CertificateSource } from "./certificates.ts";

/**
 * How a server uses TLS. `prefer`: it accepts connections with and without TLS, and connects without TLS only to servers that do not
 * offer it. `require`: TLS only. Without a mode: no TLS.
 */
export type TlsMode = "prefer" | "require";

/** Parses a mode. Undefined for other texts. */
export function tlsModeOf(text: string): TlsMode | undefined {
  return text === "prefer" || text === "require" ? text : undefined;
}

/** TLS of a program. */
export interface ProgramTls {
  readonly mode: TlsMode;
  /** The certificates of the program. They change while it runs; see `MiddlewareEngine.reloadCertificates`. */
  readonly certificates: CertificateSource;
}
