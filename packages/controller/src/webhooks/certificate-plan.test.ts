import { describe, expect, it } from "vitest";
import { type CertificateFacts, planCertificates } from "./certificate-plan.ts";

const day = 24 * 60 * 60 * 1000;
const now = Date.UTC(2026, 0, 1);
const facts = (changed: Partial<CertificateFacts> = {}): CertificateFacts => ({
  authorityExpiresMs: now + 3650 * day,
  serverExpiresMs: now + 90 * day,
  stagedMs: undefined,
  isServerValid: true,
  ...changed,
});

describe("planCertificates", () => {
  it.each([
    ["creates missing certificates", undefined, { kind: "create" }],
    ["replaces an expired authority", facts({ authorityExpiresMs: now }), { kind: "create" }],
    ["keeps certificates until 30 days before the first expires", facts(), { kind: "keep", renewAtMs: now + 60 * day }],
    ["renews a certificate 30 days before it expires", facts({ serverExpiresMs: now + 30 * day }), { kind: "renew" }],
    ["renews a certificate for other hosts", facts({ isServerValid: false }), { kind: "renew" }],
    [
      "stages the next authority before the current one is too short for a certificate",
      facts({ authorityExpiresMs: now + 120 * day }),
      { kind: "stage" },
    ],
    [
      "waits a day until clients trust the next authority",
      facts({ authorityExpiresMs: now + 100 * day, stagedMs: now }),
      { kind: "keep", renewAtMs: now + day },
    ],
    ["then lets it sign", facts({ authorityExpiresMs: now + 100 * day, stagedMs: now - day }), { kind: "promote" }],
  ])("%s", (_title, given, expected) => {
    expect(planCertificates(given, now)).toEqual(expected);
  });
});
