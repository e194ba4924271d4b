import { generateKeyPairSync } from "node:crypto";
import { type Logger, silentLogger } from "@keelson/controller";
import { expect, it } from "vitest";
import { type JoinRequest, signJoinRequest } from "../identity/join-request.ts";
import { publicKeyText } from "../identity/one-time-token.ts";
import { JoinGate } from "./join-gate.ts";

function request(tokenId: string): Buffer {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const unsigned = { robotId: "one", tokenId, publicKey: publicKeyText(publicKey), nonce: "n", labels: {} };
  return Buffer.from(JSON.stringify(signJoinRequest(unsigned, privateKey) satisfies JoinRequest));
}

it("logs why a request could not be checked, and does not tell the client", async () => {
  const errors: unknown[] = [];
  const log: Logger = { ...silentLogger, error: (fields) => errors.push(fields) };
  const gate = new JoinGate(() => Promise.reject(new Error("a detail")), log);
  expect(await gate.problem("one", request("abcdefg2"))).toBe("the request could not be checked; the agent retries");
  expect(errors).toEqual([{ robot: "one", error: "Error: a detail" }]);
});

it.each(["abcdefg", "abcdefg2x", "ABCDEFG2", "a\u001b[2Jbcd"])("rejects a request whose token id is %j", async (tokenId) => {
  const gate = new JoinGate(async () => undefined, silentLogger);
  expect(await gate.problem("one", request(tokenId))).toBe("the join request is not valid");
});
