import { configError } from "./container-error.ts";

/**
 * The most characters of an expanded value, and of all of a container together. The kernel rejects fewer, with its own error; this
 * limit keeps values that double each other from filling the memory of the node.
 */
const maxCharacters = 4 * 1024 * 1024;

/** Counts the characters of a container's environment or command. */
export class ExpansionLimit {
  #left = maxCharacters;

  /** Counts a value of the field. Throws a ContainerError that names it if it is too much. */
  add(field: string, characters: number): void {
    this.#left -= characters;
    if (this.#left < 0)
      throw configError(`${field}: the container's values have more than ${maxCharacters} characters together`);
  }
}

/**
 * Expands `$(NAME)` and `$$` in a value, a command or an argument. Unknown references are kept.
 *
 * @throws ContainerError that names `field` if the container has too many characters.
 */
export function expand(
  text: string,
  env: Readonly<Record<string, string>>,
  field: string,
  limit: ExpansionLimit = new ExpansionLimit(),
): string {
  limit.add(field, text.length);
  return text.replace(/\$(\$|\(([^)]*)\))/g, (all, _, name: string | undefined) => {
    if (name === undefined) return "$";
    const value = Object.hasOwn(env, name) ? (env[name] ?? "") : all;
    limit.add(field, value.length);
    return value;
  });
}

/** Expands the words of a command, which have one limit together. Throws as {@link expand}. */
export function expandWords(words: readonly string[], env: Readonly<Record<string, string>>): readonly string[] {
  const limit = new ExpansionLimit();
  return words.map((word, index) => expand(word, env, `command[${index}]`, limit));
}
