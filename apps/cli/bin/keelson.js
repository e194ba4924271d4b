#!/usr/bin/env node
import { currentBundle } from "../dist/bundle.js";

const bundle = process.env.KEELSON_BUNDLE === "off" ? undefined : currentBundle(new URL("../bundle/", import.meta.url));
const { main } = await import(bundle ?? "../dist/main.js");
process.exit(await main(process.argv.slice(2)));
