import { createHash } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { HandlerContext, UnaryRequest } from "@connectrpc/connect";
import { create } from "@bufbuild/protobuf";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { SetTokensRequestSchema } from "../agent2.generated.ts";
import { AgentTokens } from "./agent-tokens.ts";

let folder: string;
beforeEach(async () => void (folder = await mkdtemp(join(tmpdir(), "tokens-"))));
afterEach(() => rm(folder, { recursive: true }));

const hashOf = (text: string): string => createHash("sha256").update(text).digest("hex");

async function start(token = "first"): Promise<AgentTokens> {
  const tokens = new AgentTokens(join(folder, "tokens.json"), token);
  await tokens.load();
  return tokens;
}

/** Whether a request with a header is admitted. */
async function isAdmitted(tokens: AgentTokens, authorization: string): Promise<boolean> {
  const request = { header: new Headers({ authorization }) } as unknown as UnaryRequest;
  const answered = {} as Awaited<ReturnType<ReturnType<AgentTokens["interceptor"]>>>;
  try {
    await tokens.interceptor(() => Promise.resolve(answered))(request);
    return true;
  } catch {
    return false;
  }
}

const accepted = (tokens: AgentTokens): Promise<readonly boolean[]> =>
  Promise.all(["Bearer first", "Bearer second"].map((header) => isAdmitted(tokens, header)));

function set(tokens: AgentTokens, sequence: number, token: string, ...others: readonly string[]) {
  const request = { sequence: BigInt(sequence), id: "id", token, tokenHashes: [token, ...others].map(hashOf) };
  return tokens.tools.setTokens(create(SetTokensRequestSchema, request), {} as HandlerContext);
}

describe("the tokens of an agent", () => {
  it("are the one of its Pod until others are set", async () => {
    const tokens = await start();
    expect(await accepted(tokens)).toEqual([true, false]);
    for (const header of ["", "first", "Bearer", "Bearer ", "Basic first"])
      expect(await isAdmitted(tokens, header)).toBe(false);
    expect(tokens.info).toEqual({ tokens: "0", tokensId: "" });
  });

  it("are two during a rotation, even after a restart, and one afterwards", async () => {
    const tokens = await start();
    expect(await set(tokens, 1, "first", "second")).toMatchObject({ success: true });
    expect([await accepted(tokens), tokens.current]).toEqual([[true, true], "first"]);
    expect(await set(tokens, 2, "second", "first")).toMatchObject({ success: true });
    const restarted = await start("second");
    expect([await accepted(restarted), restarted.current]).toEqual([[true, true], "second"]);
    expect(await set(restarted, 3, "second")).toMatchObject({ success: true });
    expect([await accepted(restarted), restarted.info]).toEqual([[false, true], { tokens: "3", tokensId: "id" }]);
    expect(await set(restarted, 1, "first")).toMatchObject({ success: false });
    expect(await accepted(restarted)).toEqual([false, true]);
  });

  it("must be hashes, and contain the one that the agent uses", async () => {
    const tokens = await start();
    for (const hash of ["second", hashOf("other")]) {
      const request = create(SetTokensRequestSchema, { sequence: 1n, token: "second", tokenHashes: [hash] });
      await expect(Promise.resolve(tokens.tools.setTokens(request, {} as HandlerContext))).rejects.toThrow("token_hashes");
    }
  });
});
