import { readdirSync } from "node:fs";
import { join } from "node:path";
import { defineConfig } from "vitepress";
import { renderBracesLiterally } from "../../literal-braces.mjs";

const site = join(import.meta.dirname, "..");

const operators = [
  ["Robots", "robots"],
  ["Middleware", "middleware"],
  ["Test plane", "testplane"],
  ["MPI", "mpi"],
  ["Sandboxes", "sandboxes"],
];

/** Sidebar items of every page in a directory, in the order of the file names. */
function itemsOf(folder, names = pagesOf(folder)) {
  return names.map((name) => ({ text: title(name), link: `/${folder}/${name}` }));
}

function pagesOf(folder) {
  return readdirSync(join(site, folder))
    .filter((name) => name.endsWith(".md") && name !== "index.md")
    .map((name) => name.slice(0, -".md".length))
    .sort();
}

function title(name) {
  const text = name.replace(/^\d+-/, "").replaceAll("-", " ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

export default defineConfig({
  title: "Keelson",
  description: "Robots, stateful middleware, operator tests, MPI jobs and code sandboxes on Kubernetes",
  lang: "en",
  cleanUrls: true,
  outDir: join(site, "dist"),
  cacheDir: join(site, ".cache"),
  markdown: { config: renderBracesLiterally },
  themeConfig: {
    search: { provider: "local" },
    nav: [
      { text: "Documentation", link: "/" },
      { text: "API reference", link: "/api/" },
      { text: "Changelog", link: "/CHANGELOG" },
    ],
    sidebar: [
      { text: "Start", link: "/" },
      { text: "Tutorials", items: itemsOf("tutorials", [...operators.map(([, name]) => name), "write-a-controller"]) },
      { text: "How-to guides", items: itemsOf("how-to") },
      {
        text: "Reference",
        items: [
          ...operators.map(([text, name]) => ({
            text,
            link: `/reference/${name}`,
            items: [{ text: "Fields", link: `/reference/api/${name}` }],
          })),
          ...itemsOf("reference", ["cli", "api-server", "pods", "metrics", "limits"]),
          { text: "Packages (TypeScript)", link: "/api/" },
        ],
      },
      { text: "Explanation", items: itemsOf("explanation") },
      { text: "Decisions", collapsed: true, link: "/decisions/", items: itemsOf("decisions") },
      {
        text: "Project",
        items: ["CONTRIBUTING", "SECURITY", "CODE_OF_CONDUCT", "CHANGELOG"].map((page) => ({
          text: title(page.toLowerCase().replaceAll("_", "-")),
          link: `/${page}`,
        })),
      },
    ],
    outline: [2, 3],
  },
});
