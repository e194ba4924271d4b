import { describe, expect, it } from "vitest";
import { createScramVerifier, isScramVerifier, matchesScramVerifier } from "./scram.ts";

// RFC 7677, section 3: user "user", password "pencil".
const salt = Buffer.from("W22ZaJ0SNY7soEsUEjb6gQ==", "base64");
const verifier =
  "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";

describe("a SCRAM verifier", () => {
  it("has the keys of RFC 7677", async () => {
    expect(await createScramVerifier("pencil", salt)).toBe(verifier);
    expect(isScramVerifier(verifier)).toBe(true);
  });

  it("matches its password only", async () => {
    expect(await matchesScramVerifier(verifier, "pencil")).toBe(true);
    expect(await matchesScramVerifier(verifier, "pencils")).toBe(false);
    expect(await matchesScramVerifier("md5a3556571e93b0d20722ba62be61e8c2d", "pencil")).toBe(false);
    expect(await matchesScramVerifier(verifier.replace("4096", "0"), "pencil")).toBe(false);
  });

  it("is the same for equivalent spellings of a character", async () => {
    expect(await matchesScramVerifier(await createScramVerifier("caf\u00e9", salt), "cafe\u0301")).toBe(true);
  });

  it("is created off the event loop", async () => {
    let isCreated = false;
    const created = createScramVerifier("pencil", salt).then(() => (isCreated = true));
    for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
    expect(isCreated).toBe(false);
    await created;
  });
});
