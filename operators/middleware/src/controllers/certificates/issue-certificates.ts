import { createCertificateAuthority, issueCertificate, type KeyPair } from "@keelson/api-machinery/certificates";
import { authorityLifeMs, type CertificateStep, leafLifeMs } from "./certificate-decision.ts";
import type { CertificateState } from "./certificate-state.ts";

/** Whom certificates are for. */
export interface Subjects {
  /** Name of the App. */
  readonly app: string;
  /** Name that all agents of the App have; see `agentName`. */
  readonly agent: string;
  /** Names and addresses of the programs. */
  readonly hosts: readonly string[];
}

/** Tolerates clock differences between machines. */
const backdateMs = 60 * 60 * 1000;

/** Takes a step. `state`: the recorded one, or for `recover` the recovered one. `rotated`: the request that it fulfils. */
export async function takeStep(
  step: Exclude<CertificateStep["kind"], "wait">,
  state: CertificateState | undefined,
  subjects: Subjects,
  { now, rotated }: { readonly now: number; readonly rotated: string | undefined },
): Promise<CertificateState> {
  const request = rotated === undefined ? {} : { rotated };
  if (state === undefined || step === "create") {
    const authority = await createAuthority(subjects, now);
    return { authority, changedMs: now, ...(await issue(authority, subjects, now)), ...request };
  }
  const { nextAuthority, previousAuthority: _, ...rest } = state;
  switch (step) {
    case "issue":
      return { ...state, ...(await issue(state.authority, subjects, now)), ...request };
    case "recover":
    case "stage":
      return { ...state, nextAuthority: await createAuthority(subjects, now), changedMs: now, ...request };
    case "promote": {
      const authority = nextAuthority ?? state.authority;
      const leaves = await issue(authority, subjects, now);
      return { ...rest, authority, previousAuthority: state.authority.certificate, changedMs: now, ...leaves };
    }
    case "drop":
      return rest;
  }
}

function createAuthority({ app }: Subjects, now: number): Promise<KeyPair> {
  return createCertificateAuthority(`keelson-${app}-ca`, new Date(now - backdateMs), new Date(now + authorityLifeMs));
}

async function issue(
  authority: KeyPair,
  { app, agent, hosts }: Subjects,
  now: number,
): Promise<Pick<CertificateState, "agent" | "program">> {
  const validity = { notBefore: new Date(now - backdateMs), notAfter: new Date(now + leafLifeMs) };
  const sign = (commonName: string, names: readonly string[]): Promise<KeyPair> =>
    issueCertificate(authority, { ...validity, commonName, usage: "peer", hosts: names });
  return { agent: await sign("keelson-agent", [agent]), program: await sign(app.slice(0, 64), hosts) };
}
