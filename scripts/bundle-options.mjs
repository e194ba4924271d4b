/* Options of rolldown that all bundles share. */

/**
 * V8 keeps the source of every loaded file, with two bytes per character if a single one is not Latin-1. Names and lines stay as they are for
 * stack traces, and licenses are kept.
 */
export const compactSource = { charset: "ascii", comments: { legal: true, annotation: false, jsdoc: false } };

/** Omits modules that are imported but not used. Ours do nothing when they are imported. */
export const usedModules = {
  moduleSideEffects: [{ test: /[\\/](packages|operators)[\\/][^\\/]+[\\/]dist[\\/]/, sideEffects: false }],
};
