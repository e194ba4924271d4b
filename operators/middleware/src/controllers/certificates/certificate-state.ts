import { X509Certificate } from "node:crypto";
import { isIP } from "node:net";
import { certificateDefect, type KeyPair } from "@keelson/api-machinery/certificates";

/** The authority of an App and what it has signed, recorded in one Secret before any of it is published. */
export interface CertificateState {
  /** Signs. Its key is empty if it was lost: the authority is still trusted, and replaced by the next one. */
  readonly authority: KeyPair;
  /** Trusted, and signs next. Present while the authority is being replaced. */
  readonly nextAuthority?: KeyPair;
  /** The certificate (PEM) of the replaced authority, trusted until its grace period ends. */
  readonly previousAuthority?: string;
  /** When the next authority was created or took over. */
  readonly changedMs: number;
  /** Of the agents and controllers. */
  readonly agent: KeyPair;
  /** Of the programs. Not used by an App with its own Secret. */
  readonly program: KeyPair;
  /** Id of the last rotation on request. */
  readonly rotated?: string;
}

const pairs = {
  authority: ["ca.crt", "ca.key"],
  nextAuthority: ["next-ca.crt", "next-ca.key"],
  agent: ["agent.crt", "agent.key"],
  program: ["tls.crt", "tls.key"],
} as const;
const [previousKey, changedKey, rotatedKey] = ["previous-ca.crt", "changed", "rotated"];

type Texts = Readonly<Record<string, string>>;

/** Keys of a Secret with a state. Those that a state does not have are null, so that a merge removes them. */
export function textsOf(state: CertificateState): Readonly<Record<string, string | null>> {
  const texts: Record<string, string | null> = {
    [previousKey]: state.previousAuthority ?? null,
    [changedKey]: String(state.changedMs),
    [rotatedKey]: state.rotated ?? null,
  };
  for (const [name, [certificate, key]] of Object.entries(pairs)) {
    const pair = state[name as keyof typeof pairs];
    texts[certificate] = pair?.certificate ?? null;
    texts[key] = pair?.key ?? null;
  }
  return texts;
}

/** Parses a Secret. Undefined if it has no complete state. */
export function parseCertificateState(texts: Texts): CertificateState | undefined {
  const read = ([certificate, key]: readonly [string, string]): KeyPair | undefined => {
    const pair = { certificate: texts[certificate] ?? "", key: texts[key] ?? "" };
    return isCertificate(pair.certificate) ? pair : undefined;
  };
  const complete = (pair: KeyPair | undefined): KeyPair | undefined => (pair?.key === "" ? undefined : pair);
  const [authority, next, agent, program] = [
    read(pairs.authority),
    ...[pairs.nextAuthority, pairs.agent, pairs.program].map((keys) => complete(read(keys))),
  ];
  if (authority === undefined || agent === undefined || program === undefined) return undefined;
  // Without its key, an authority can only be replaced.
  if (authority.key === "" && next === undefined) return undefined;
  const { [previousKey]: previous = "", [rotatedKey]: rotated = "" } = texts;
  return {
    ...{ authority, agent, program, changedMs: Number(texts[changedKey] ?? 0) },
    ...(next === undefined ? {} : { nextAuthority: next }),
    ...(isCertificate(previous) ? { previousAuthority: previous } : {}),
    ...(rotated === "" ? {} : { rotated }),
  };
}

/** All authorities that clients, programs and agents trust, in PEM. */
export function bundleOf({ authority, nextAuthority, previousAuthority }: CertificateState): string {
  return [authority.certificate, nextAuthority?.certificate, previousAuthority]
    .flatMap((pem) => (pem === undefined ? [] : [`${pem.trim()}\n`]))
    .join("");
}

/** When a certificate expires. */
export const expiryOf = ({ certificate }: Pick<KeyPair, "certificate">): number =>
  Date.parse(new X509Certificate(certificate).validTo);

/** Whether a certificate is valid for all names and addresses. */
export function coversHosts({ certificate }: Pick<KeyPair, "certificate">, hosts: readonly string[]): boolean {
  const leaf = new X509Certificate(certificate);
  const covers = (host: string): boolean =>
    (isIP(host) === 0 ? leaf.checkHost(host, { wildcards: false }) : leaf.checkIP(host)) !== undefined;
  return hosts.every(covers);
}

/** Whether the certificates of agents and programs can be used at this time. */
export function hasValidLeaves({ authority, agent, program }: CertificateState, now: number): boolean {
  return [agent, program].every((pair) => certificateDefect(pair, authority, now, now) === undefined);
}

function isCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem).ca !== undefined;
  } catch {
    return false;
  }
}
