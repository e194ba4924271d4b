/** Seconds with three decimals. */
export const formatSeconds = (value: number): string => value.toFixed(3);
