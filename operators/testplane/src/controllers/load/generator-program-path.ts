import { fileURLToPath } from "node:url";

/** Path of the built program of the load generator, also if this module runs from source. */
export const generatorProgramPath = fileURLToPath(
  new URL(
    import.meta.url.endsWith(".ts") ? "../../../dist/generator/generator-program.js" : "../../generator/generator-program.js",
    import.meta.url,
  ),
);
