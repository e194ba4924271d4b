/* Writes the API reference of every package below the directory that is its argument, as Markdown. Fails on broken links. */
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { Application, OptionDefaults } from "typedoc";

const root = join(import.meta.dirname, "../..");
const out = process.argv[2];

/** Entry points by source file, with the names under which they are imported. */
const entries = new Map(
  ["packages", "operators"].flatMap((group) =>
    readdirSync(join(root, group)).flatMap((folder) => {
      const manifest = JSON.parse(readFileSync(join(root, group, folder, "package.json"), "utf8"));
      return Object.entries(manifest.exports).flatMap(([subpath, target]) =>
        target.source === undefined ? [] : [[join(root, group, folder, target.source), manifest.name + subpath.slice(1)]],
      );
    }),
  ),
);

const app = await Application.bootstrapWithPlugins({
  entryPoints: [...entries.keys()],
  tsconfig: join(import.meta.dirname, "tsconfig.json"),
  plugin: ["typedoc-plugin-markdown"],
  name: "API reference",
  outputs: [{ name: "markdown", path: out }],
  blockTags: [...OptionDefaults.blockTags, "@generated"],
  basePath: root,
  readme: "none",
  excludePrivate: true,
  excludeExternals: true,
  disableSources: true,
  skipErrorChecking: true,
  hidePageHeader: true,
  hideBreadcrumbs: false,
  entryFileName: "index",
  router: "module",
  sortEntryPoints: false,
  parametersFormat: "table",
  propertiesFormat: "table",
  // A link to a symbol that is not exported becomes text; one to a symbol that does not exist fails.
  externalSymbolLinkMappings: Object.fromEntries(
    [...entries.values()].map((name) => [name.split("/", 2).join("/"), { "*": "#" }]),
  ),
  validation: { invalidLink: true, notExported: false, notDocumented: false },
  treatValidationWarningsAsErrors: true,
  logLevel: "Warn",
});
const project = await app.convert();
if (project === undefined) process.exit(1);
for (const module of project.children ?? []) {
  const source = project.getSymbolIdFromReflection(module)?.fileName ?? module.sources?.[0]?.fullFileName;
  const name = entries.get(source);
  if (name === undefined) throw new Error(`entry point of module ${module.name} not found`);
  module.name = name;
}
app.validate(project);
await app.generateOutputs(project);
if (app.logger.hasErrors() || app.logger.hasWarnings()) process.exitCode = 1;
