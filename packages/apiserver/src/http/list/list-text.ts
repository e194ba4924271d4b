/** The text of a JSON object whose last field is a list, in parts: the opening, the items of each slice, and the closing. */
export interface ListText {
  opening(head: object, name: string): string;
  ofSlice(values: readonly unknown[]): string;
  readonly closing: string;
}

/** Without spaces. */
export const compactList: ListText = {
  opening: (head, name) => `${JSON.stringify(head).slice(0, -1)},${JSON.stringify(name)}:[`,
  ofSlice: (values) => JSON.stringify(values).slice(1, -1),
  closing: "]}",
};

/**
 * With the line breaks and the indentation of `JSON.stringify(value, undefined, 2)`, for lists with items. Strings in JSON have no line
 * breaks, so every line break is followed by indentation.
 */
export const prettyList: ListText = {
  opening: (head, name) => `${JSON.stringify(head, undefined, 2).slice(0, -2)},\n  ${JSON.stringify(name)}: [`,
  ofSlice: (values) => JSON.stringify(values, undefined, 2).slice(1, -2).replaceAll("\n", "\n  "),
  closing: "\n  ]\n}\n",
};
