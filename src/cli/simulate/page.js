const search = document.getElementById("search");
search?.addEventListener("input", () => {
  const wanted = search.value.trim();
  for (const group of document.querySelectorAll(".group")) {
    group.hidden = wanted !== "" && !group.dataset.names.includes(wanted);
  }
});
