#!/usr/bin/env node
import { currentBundle } from "@keelson/operator/bundle";
import { loadBundledProgram } from "@keelson/operator/bundled-program";

const args = process.argv.slice(2);
const bundle =
  process.env.KEELSON_BUNDLE === "off" ? undefined : currentBundle(new URL("../bundle/", import.meta.url), "main.cjs");
// Each component runs other parts of the files that they share.
const role = args[0] === "component" ? args[1] : "command";
const program = bundle === undefined ? undefined : loadBundledProgram(new URL(bundle), role);
// Components are often killed. By now one has started, and has compiled most of what it needs.
setTimeout(() => void program?.keepCompiledCode(), 3_000).unref();
const { exitOnClosedOutput, main } = program?.exports ?? (await import("../dist/main.js"));
exitOnClosedOutput(process);
const status = await main(args);
await program?.keepCompiledCode();
process.exit(status);
