#!/usr/bin/env node
import { currentBundle } from "@keelson/operator/bundle";

const bundle =
  process.env.KEELSON_BUNDLE === "off" ? undefined : currentBundle(new URL("../bundle/", import.meta.url), "main.js");
const { main } = await import(bundle ?? "../dist/main.js");
process.exit(await main(process.argv.slice(2)));
