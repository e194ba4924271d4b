import { X509Certificate } from "node:crypto";
import { certificateDefect, type KeyPair } from "@keelson/api-machinery/certificates";
import type { Certificates } from "@keelson/middleware-agent";
import type { CertificateState } from "./certificate-state.ts";

/** The certificates that are published, as their Secrets have them. */
export interface PublishedPairs {
  readonly agent: Certificates;
  /** Of the programs. Undefined if the App has its own Secret. */
  readonly program: Certificates | undefined;
}

/**
 * The state of certificates whose Secret was lost: what Pods and clients trust and use, without the key of the authority. Undefined if that
 * cannot be used either.
 */
export function recoverState({ agent, program }: PublishedPairs, now: number): CertificateState | undefined {
  for (const certificate of certificatesOf(agent.authorities)) {
    const authority = { certificate, key: "" };
    const has = (pair: KeyPair): boolean => certificateDefect(pair, authority, now, now) === undefined;
    const own = pairOf(agent);
    if (!has(own) || Date.parse(new X509Certificate(certificate).validTo) <= now) continue;
    const others = certificatesOf(agent.authorities).filter((each) => each !== certificate);
    const exposed = program === undefined ? own : pairOf(program);
    return {
      ...{ authority, agent: own, program: has(exposed) ? exposed : own, changedMs: now },
      ...(others.length === 0 ? {} : { previousAuthority: others.join("") }),
    };
  }
  return undefined;
}

const pairOf = ({ certificate, key }: Certificates): KeyPair => ({ certificate, key });

/** The certificates of a bundle. Empty if one of them cannot be parsed. */
function certificatesOf(bundle: string): readonly string[] {
  const all = bundle.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  try {
    return all.map((pem) => new X509Certificate(pem).toString());
  } catch {
    return [];
  }
}
