import { currentBundle } from "@keelson/operator/bundle";

/* The program of an agent's Pod. It runs from its bundle if that is current, and otherwise from the packages. */

const bundle =
  process.env.KEELSON_BUNDLE === "off" ? undefined : currentBundle(new URL("../bundle/", import.meta.url), "agent-main.js");
if (bundle === undefined) await import("./agent-main.ts");
else await import(bundle);
