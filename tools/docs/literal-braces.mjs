/**
 * Makes Markdown literal for Vue: `{{` in a page is text, such as a Go template, and never an expression that the site evaluates. Applies to
 * everything that is rendered, whether the page is written or generated.
 *
 * @param {{ renderer: { render(tokens: unknown, options: unknown, env: unknown): string } }} markdown
 */
export function renderBracesLiterally({ renderer }) {
  const render = renderer.render.bind(renderer);
  renderer.render = (tokens, options, env) => render(tokens, options, env).replaceAll("{{", "&#123;&#123;");
}
