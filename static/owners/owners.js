// Who was logged out while the shares renewed themselves is led to the login, by loading the page again.
document.addEventListener("htmx:beforeSwap", (event) => {
  if (event.detail.target?.id !== "shares" || event.detail.xhr.responseText.includes('id="shares"')) return;
  event.detail.shouldSwap = false;
  window.location.reload();
});
