import { expect, it } from "vitest";
import { pemBlocks } from "./pem-blocks.ts";

const block = (type: string, content: string): string => `-----BEGIN ${type}-----\n${content}\n-----END ${type}-----`;

it("finds the blocks of a text", () => {
  const [first, second] = [block("CERTIFICATE", "AAAA\nBBBB"), block("PRIVATE KEY", "CCCC")];
  expect(pemBlocks(`text\n${first}\nmore text\n${second}`)).toEqual([
    { type: "CERTIFICATE", hasHeaders: false, base64: "AAAA\nBBBB\n", text: first },
    { type: "PRIVATE KEY", hasHeaders: false, base64: "CCCC\n", text: second },
  ]);
  expect(pemBlocks(`${first}\n`.replaceAll("\n", "\r\n"))).toMatchObject([{ base64: "AAAA\r\nBBBB\r\n" }]);
});

it("separates headers from the content", () => {
  const encrypted = block("RSA PRIVATE KEY", "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA");
  expect(pemBlocks(encrypted)).toMatchObject([{ hasHeaders: true, base64: "\nAAAA\n" }]);
});

it.each([
  ["nothing", ""],
  ["a block that is not closed", "-----BEGIN A-----\nAAAA\n"],
  ["another label at the end", "-----BEGIN A-----\nAAAA\n-----END B-----\n-----END A-----\n"],
  ["invalid base64", block("A", "AA!A")],
  ["a marker within a line", ` ${block("A", "AAAA")}`],
  ["a marker without dashes", "-----BEGIN A\nAAAA\n-----END A\n"],
])("skips %s", (_, text) => {
  expect(pemBlocks(text)).toEqual([]);
});

// Each takes minutes if the text behind a marker is read again for every marker or line.
it.each([
  ["newlines", `-----BEGIN A-----${"\n".repeat(2_000_000)}`],
  ["markers that are not closed", "-----BEGIN A-----\n".repeat(100_000)],
  ["ends that close nothing", `-----BEGIN A-----\n${"-----END B-----\n".repeat(100_000)}`],
  ["dashes", `-----BEGIN A${"-".repeat(2_000_000)}`],
  ["headers", `-----BEGIN A-----\n${"a: b\n".repeat(400_000)}`],
  ["spaces", `-----BEGIN A-----${" ".repeat(2_000_000)}x`],
])("reads many %s in linear time", (_, text) => {
  expect(pemBlocks(text)).toEqual([]);
});
